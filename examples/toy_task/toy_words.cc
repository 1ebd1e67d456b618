#include "toy_words.h"

namespace toy {

const std::string_view kNames =
    "Aaron Abigail Adam Adrian Agnes Alan Albert Alex Alexander Alice Alicia Allison Amanda Amber Amy Andrea "
    "Andrew "
    "Angela Anita Ann Anna Anthony Antonio April Arthur Ashley Audrey Austin Barbara Beatrice Benjamin "
    "Bernard Beth "
    "Betty Beverly Billy Bobby Bonnie Brandon Brenda Brian Bridget Bruce Bryan Caleb Calvin Cameron Carl "
    "Carla "
    "Carlos Carmen Carol Caroline Carrie Catherine Cecilia Charles Charlotte Chelsea Cheryl Chloe Christian "
    "Christina Christopher Cindy Claire Clara Clarence Claudia Colin Connie Connor Craig Crystal Curtis "
    "Cynthia "
    "Daisy Daniel Danielle Darren David Dawn Deborah Dennis Derek Diana Diane Dominic Donald Donna Doris "
    "Dorothy "
    "Douglas Duncan Dylan Edgar Edith Edna Edward Edwin Eileen Elaine Eleanor Elena Elizabeth Ella Ellen "
    "Emily Emma "
    "Eric Erica Ernest Esther Ethan Eugene Eva Evan Evelyn Felix Fiona Florence Frances Francis Frank Fred "
    "Gabriel "
    "Gail Gary Geoffrey George Gerald Gina Gladys Glenn Gloria Gordon Grace Graham Greg Gwen Hannah Harold "
    "Harriet "
    "Harry Harvey Hazel Heather Hector Heidi Helen Henry Herbert Holly Howard Hugh Ian Ida Irene Iris Isaac "
    "Isabel "
    "Ivan Jack Jacob James Jamie Jane Janet Janice Jason Jasmine Jean Jeffrey Jenna Jennifer Jeremy Jerry "
    "Jesse "
    "Jessica Jill Joan Joanna Joel John Jonathan Jordan Jose Joseph Joshua Joyce Juan Judith Judy Julia "
    "Julian Julie "
    "Justin Karen Karl Kate Kathleen Katie Keith Kelly Kenneth Kevin Kim Kyle Larry Laura Lauren Lawrence "
    "Leah Lee "
    "Leo Leonard Leslie Lewis Liam Lillian Linda Lisa Logan Lois Lori Louis Lucas Lucy Luis Luke Lydia Lynn "
    "Madison "
    "Marcus Margaret Maria Marie Marion Marjorie Mark Martha Martin Marvin Mary Mason Matthew Maureen Megan "
    "Melanie "
    "Melissa Michael Michelle Mildred Miguel Molly Monica Nancy Naomi Natalie Nathan Neil Nicholas Nicole "
    "Nina Noah "
    "Nora Norman Oliver Olivia Oscar Owen Pamela Patricia Patrick Paul Paula Pauline Peggy Peter Philip "
    "Phyllis "
    "Rachel Ralph Raymond Rebecca Richard Rita Robert Robin Roger Ronald Rosemary Roy Ruby Russell Ruth Ryan "
    "Sally "
    "Samantha Samuel Sandra Sara Scott Sean Sharon Sheila Shirley Sidney Simon Sophia Stanley Stella "
    "Stephanie Steven "
    "Stuart Susan Sylvia Tamara Teresa Theodore Thomas Timothy Tina Todd Tracy Travis Tyler Valerie Vanessa "
    "Vera "
    "Vernon Veronica Victor Victoria Vincent Viola Virginia Vivian Walter Wanda Warren Wayne Wendy Wesley "
    "William "
    "Winifred Yolanda Yvonne Zachary Zoe";

const std::string_view kPlaces =
    "abbey airport aquarium arcade arena attic bakery bank barn basement bay beach bistro bookshop border "
    "bridge "
    "brewery bus cabin cafe camp canal canteen casino castle cathedral cave cellar chapel church cinema "
    "circus clinic "
    "club coast college cottage court dock dungeon embassy factory fair farm ferry festival field forest "
    "fort "
    "fountain gallery garage garden gate gym hall harbor hill hospital hostel hotel house hut inn island "
    "jungle "
    "kitchen laboratory lake library lighthouse lodge mall market meadow mill mine monastery monument motel "
    "mountain "
    "museum office orchard palace park pier pond port prison pub quarry ranch restaurant river school shed "
    "shop "
    "square stable stadium station store studio temple tent theater tower town tunnel valley village "
    "vineyard "
    "waterfall yard zoo";

const std::string_view kObjects =
    "backpack badge bag ball balloon banana basket bat battery bell belt blanket book bottle bowl box "
    "bracelet brush "
    "bucket button cake camera candle candy cap card chair clock coat coin comb computer cookie crown cup "
    "diamond "
    "dish doll dress drink drum feather flag flower flute fork gift glove guitar hammer hat helmet jacket "
    "jar jewel "
    "key kite knife ladder lamp lemon letter magazine map mask medal mirror mug necklace needle newspaper "
    "notebook "
    "painting pan peach pear pen pencil phone photo piano picture pillow pin plate poster present puzzle "
    "radio ribbon "
    "ring robe rope ruler sandwich scarf shell shirt shoe snack sock spoon stamp stick stone sweater ticket "
    "torch "
    "towel toy trophy trumpet vase violin wallet watch whistle";

const std::string_view kGivingVerbs = "brought gave handed lent offered passed sent showed sold threw";

const std::string_view kMovingVerbs = "came drove hurried ran returned rode sailed traveled walked went";

const std::string_view kFillers =
    "amber azure beige black blue bronze brown copper coral cream crimson cyan gold gray green indigo ivory "
    "jade lilac "
    "lime maroon mint navy ochre olive orange pink plum purple red rust sand scarlet silver tan teal violet "
    "white "
    "yellow one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "eagle fox "
    "bear wolf deer hawk owl crow swan duck goose seal whale shark trout salmon frog toad snake lizard mouse "
    "rat "
    "rabbit horse donkey cow goat sheep pig hen bold brave calm clever cold cool dark deep dry early fast "
    "fierce firm "
    "flat fresh gentle glad happy hard heavy honest huge kind late lazy light long loud low lucky mild "
    "narrow neat new "
    "noisy old plain proud quick quiet rare rich rough round sad sharp short shy silent slow small smooth "
    "soft sour "
    "steep strange strong sudden sweet tall thick thin tidy tiny warm weak wet wide wild wise young";

}  // namespace toy
